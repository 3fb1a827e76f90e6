plugins {
    id("com.android.application")
    id("org.jetbrains.kotlin.android")
}

android {
    namespace = "io.tandem.example"
    compileSdk = 35
    defaultConfig {
        applicationId = "io.tandem.example"
        minSdk = 26
        targetSdk = 35
        versionCode = 1
        versionName = "0.1.0"
        ndk { abiFilters += "arm64-v8a" }
    }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_1_8
        targetCompatibility = JavaVersion.VERSION_1_8
    }
    kotlinOptions { jvmTarget = "1.8" }
    // The view model is a folder of its own, because it is also compiled and tested without Android (`make java`).
    sourceSets["main"].java.srcDirs("src/main/kotlin", "src/viewmodel/kotlin")
    // The NPU's loader finds its libraries as files.
    packaging { jniLibs { useLegacyPackaging = true } }
}

dependencies {
    implementation(files("libs/tandem.aar", "libs/tandem-kotlin.jar"))
    implementation("org.jetbrains.kotlinx:kotlinx-coroutines-android:1.9.0")
}
